"""The web UI feature. Installed last, because it answers every path that is not the API's."""

from holdfast.operations.manifest import Feature
from holdfast.web import pages

FEATURE = Feature(name="web", install=pages.install)
