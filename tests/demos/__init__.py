"""The models in the box: what they say, what it costs to say it, and whether others agree."""
