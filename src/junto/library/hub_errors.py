"""What goes wrong with the hub, in one line each: not there, not allowed, not reached, too slow."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from junto.errors import DiskError, JuntoError, LibraryError
from junto.library.names import Reference


@contextmanager
def told(wanted: Reference, endpoint: str) -> Iterator[None]:
    """Raise LibraryError (or DiskError, of a full disk) for any fault of the hub or on the way."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

    # The library has changed its HTTP client, and so the error below all of that client's.
    http_error: type[Exception] = HfHubHTTPError.__mro__[1]
    try:
        yield
    except JuntoError:
        raise
    except HfHubHTTPError as error:
        raise LibraryError(_refusal(error, wanted, endpoint)) from error
    except OfflineModeIsEnabled as error:
        raise LibraryError(f"{wanted}: the hub is switched off by HF_HUB_OFFLINE; unset it") from (
            error
        )
    except (HFValidationError, http_error, OSError) as error:
        raise _failure(error, wanted, endpoint) from error


def _refusal(error: Exception, wanted: Reference, endpoint: str) -> str:
    from huggingface_hub import errors

    page = f"{endpoint}/{wanted.repo}"
    status = getattr(getattr(error, "response", None), "status_code", 0)
    if isinstance(error, errors.GatedRepoError):
        return (
            f"{wanted}: the repository is gated; accept its terms at {page}, then set HF_TOKEN to a"
            " token of your account (or: hf auth login)"
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{wanted}: the repository has no revision {wanted.revision or 'main'}; see {page}"
    if isinstance(error, errors.RepositoryNotFoundError):
        return (
            f"{wanted}: no such repository on the hub, or a private one; check the name at {page},"
            " or set HF_TOKEN if it is yours"
        )
    if status in (401, 403):
        return (
            f"{wanted}: the hub refuses this account (HTTP {status}); check HF_TOKEN, and that the"
            f" terms at {page} are accepted"
        )
    if status == 429:
        return f"{wanted}: the hub asks to slow down (HTTP 429); wait some minutes, or set HF_TOKEN"
    return f"{wanted}: the hub answers HTTP {status}; try again later ({_first_line(error)})"


def _failure(error: Exception, wanted: Reference, endpoint: str) -> JuntoError:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskError(f"{wanted}: the disk is full; free some room, the same command goes on")
    if isinstance(error, OSError) and error.filename is not None:
        return DiskError(f"{error.filename}: {(error.strerror or str(error)).lower()}")
    reason = _first_line(error) or type(error).__name__
    return LibraryError(
        f"{wanted}: {endpoint} was not reached, or the connection broke ({reason}); check the"
        " network, the same command goes on where it stopped; what is here: junto list"
    )


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")
