"""Image files as samples: reading, resizing, and placement in a network input."""
