"""What the steps of ``action.yml`` run."""
