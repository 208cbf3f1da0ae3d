"""What the bench of the web pages needs beside itself."""
