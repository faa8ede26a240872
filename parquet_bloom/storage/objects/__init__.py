"""Object stores, read and written through obstore."""
