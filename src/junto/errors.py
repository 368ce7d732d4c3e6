"""The errors that a user, a file or a client can cause.

Each message is one line that says what, where, what was expected, what was found and what to do.
The command line prints it as it is; nothing here knows of exit codes or HTTP.
"""


class JuntoError(Exception):
    """Anything that someone outside the program can cause and mend."""


class FormatError(JuntoError):
    """The bytes of a file do not say what its format demands."""


class DiskError(JuntoError):
    """A file cannot be written where it is meant to be."""


class RoomError(JuntoError):
    """A model does not fit into the memory that is free."""


class ModelError(JuntoError):
    """A well-formed file describes a model that cannot be run as it stands."""


class LibraryError(JuntoError):
    """A model is not found by its name, or cannot be fetched or removed."""


class RequestError(JuntoError):
    """An argument of a call is out of its range."""


class TextError(JuntoError):
    """A vocabulary or a chat template is missing, broken or hostile."""
