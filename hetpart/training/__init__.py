"""A training step as a graph: its optimizers, embeddings, state and checkpoints."""
