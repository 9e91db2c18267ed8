"""The console in a real Chromium: each view, logins, lost connections, hostile data, accessibility."""
