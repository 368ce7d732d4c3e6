"""Models by name: where they lie on this machine, and how they come here from the hub.

Knows names, folders and the hub; nothing of what is in a model file. huggingface_hub is imported
where something is fetched or removed, so finding a model costs no start-up time.
"""

from junto.library.find import find_model

__all__ = ["find_model"]
