"""What the bench of the fleet needs beside itself."""
