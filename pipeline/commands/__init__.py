"""What people ask for: the commands as functions, and how they end."""
