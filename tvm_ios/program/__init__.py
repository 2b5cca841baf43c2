"""Programs: lanes of launches and waits, how schedules become them, and where buffers lie."""
