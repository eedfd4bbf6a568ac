"""A real Chromium, driven by Playwright over its DevTools protocol; nothing is downloaded."""
