"""Import schedules from files of IOS's published implementation."""
