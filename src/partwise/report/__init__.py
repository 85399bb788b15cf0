"""What people see: live progress, pictures and self-contained pages."""
