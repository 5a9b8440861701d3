"""What is stored of training, and how it is loaded again."""
