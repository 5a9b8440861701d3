"""Which replica answers which request, and when: choice, health, admission, back-pressure."""
