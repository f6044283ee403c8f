"""Image files as samples: reading, resizing, and where an image lies in a network input."""
