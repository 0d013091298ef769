"""Rules over models and plans: what costs time, memory or trust, and what will not run."""
