from tests.pytorch.conftest import one_registry  # noqa: F401 - a fixture
