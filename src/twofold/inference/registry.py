"""The inference methods by their names, and the forms in which a user may give one."""

from collections.abc import Mapping
from dataclasses import fields, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from twofold.core.naming import nearest
from twofold.core.plain import to_plain

if TYPE_CHECKING:
    from twofold.inference.method import Method

# One row a method; its module is imported when the method is used.
METHODS = {
    "ensemble": ("twofold.inference.ensemble", "Ensemble"),
    "alpha": ("twofold.inference.alpha", "Alpha"),
    "sghmc": ("twofold.inference.sghmc", "SGHMC"),
    "nuts": ("twofold.inference.hmc", "NUTS"),
    "hmc": ("twofold.inference.hmc", "HMC"),
}
DEFAULT = "ensemble"
# Options that regressors had before methods had them.
FORMER = {
    "inference_options",
    "alpha",
    "draws",
    "epochs",
    "batch_size",
    "learning_rate",
    "learning_rate_decay",
}


def method_class(name: Any) -> "type[Method]":
    """The class of a method by its name."""
    if not isinstance(name, str) or name not in METHODS:
        raise ValueError(
            f"inference must be one of {', '.join(map(repr, METHODS))}, got {name!r}"
            f"{nearest(name, METHODS)}"
        )
    module, attribute = METHODS[name]
    found: type[Method] = getattr(import_module(module), attribute)
    return found


def option_names(method: "type[Method] | Method") -> list[str]:
    """The options of a method."""
    return [one.name for one in fields(method)]  # type: ignore[arg-type]


def resolve_method(inference: Any) -> "Method":
    """The method that a user means: one of these objects, a name, or a mapping such as
    ``{"method": "alpha", "alpha": 0.5}``, as JSON and TOML have it."""
    if isinstance(inference, str):
        return method_class(inference)()
    if isinstance(inference, Mapping):
        if "method" not in inference:
            raise ValueError(
                "a mapping for inference needs the key 'method' (one of "
                f"{', '.join(map(repr, METHODS))}), got {dict(inference)!r}"
            )
        options = {name: value for name, value in inference.items() if name != "method"}
        return replace_options(method_class(inference["method"])(), options)
    if getattr(inference, "name", None) in METHODS and not isinstance(inference, type):
        method: Method = inference
        return method
    raise ValueError(
        f"inference must be a name ({', '.join(map(repr, METHODS))}), a method such as "
        f"Alpha(alpha=0.5), or a mapping such as {{'method': 'alpha', 'alpha': 0.5}}, got "
        f"{inference!r}"
    )


def replace_options(method: "Method", options: Mapping[Any, Any]) -> "Method":
    """The method with some options changed."""
    known = option_names(method)
    for name in options:
        if name not in known:
            raise ValueError(
                f"{type(method).__name__} has no option {name!r}{nearest(name, known)}; its "
                f"options are {', '.join(known)}"
            )
    changed: Method = replace(method, **options)  # type: ignore[type-var]
    return changed


def to_mapping(inference: Any) -> dict[str, Any]:
    """A method as the mapping of all its options, in JSON values."""
    method = resolve_method(inference)
    options = {name: getattr(method, name) for name in option_names(method)}
    return {"method": method.name, **to_plain(options)}


def nest_options(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a regressor in which options of the method may stand beside the others, as on the
    command line, with these moved into ``inference``."""
    own = {name: value for name, value in settings.items() if name in _every_option()}
    rest = {name: value for name, value in settings.items() if name not in own}
    if not own:
        return rest
    inference = rest.get("inference", DEFAULT)
    if isinstance(inference, str):
        inference = {"method": inference}
    elif not isinstance(inference, Mapping):
        inference = to_mapping(inference)
    return rest | {"inference": {**inference, **own}}


def upgrade_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a stored model or campaign as they are now. Once the regressor had the options of
    all methods, and used those of its own."""
    if not FORMER & set(settings):
        return dict(settings)
    known = option_names(method_class(settings.get("inference", DEFAULT)))
    flat = {**settings, **(settings.get("inference_options") or {})}
    flat.pop("inference_options", None)
    every = _every_option()
    used = {name for name, value in flat.items() if name in known and value is not None}
    return nest_options({name: flat[name] for name in flat if name not in every or name in used})


def _every_option() -> set[str]:
    return {name for method in METHODS for name in option_names(method_class(method))}
