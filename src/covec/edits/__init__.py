"""What changes activations: the algebra shared by steer, erase and generate, its scopes, and generation under it."""
