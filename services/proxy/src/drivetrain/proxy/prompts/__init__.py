"""Messages to exact prompt tokens: recorded tokens first, the template for what is new."""
