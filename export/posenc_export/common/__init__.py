"""What every room may use: processes of their own, what they say, and limits of their memory and time."""
