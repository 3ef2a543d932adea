"""What a model shows at sites for inputs: captured rows, and the moments that most methods need."""
