"""What a file holds, how well a model predicts a text, and how fast it runs."""
