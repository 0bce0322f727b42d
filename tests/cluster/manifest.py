"""Reads a Kubernetes manifest of an indexed job and its service as strictly as an API server does: known kinds, no
unknown fields, all required fields, right types and names, and no key twice. The definitions are those of Debian's
python3-kubernetes. Also refuses manifests that an API server accepts, but with which no pod would run, or the pods
would not find each other."""

import re

import kubernetes.client as api
import yaml

KINDS = {("v1", "Service"): "V1Service", ("batch/v1", "Job"): "V1Job"}
SIMPLE = {"str": str, "int": int, "bool": bool}


class ManifestError(Exception):
    """Says where in the manifest the error is."""


def require(condition, what):
    if not condition:
        raise ManifestError(what)


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key) for key, _ in node.value]
        for key in keys:
            require(keys.count(key) == 1, f"line {node.start_mark.line + 1}: the key '{key}' is there twice")
        return super().construct_mapping(node, deep)


def _build(value, kind, where):
    """`value` as an object of the API's type `kind`."""
    if several := re.fullmatch(r"list\[(.+)\]", kind):
        require(isinstance(value, list), f"{where}: {value!r} is not a list")
        return [_build(one, several[1], f"{where}[{i}]") for i, one in enumerate(value)]
    if by_name := re.fullmatch(r"dict\(str, (.+)\)", kind):
        return {_build(key, "str", where): _build(one, by_name[1], f"{where}.{key}") for key, one in value.items()}
    if kind in SIMPLE:
        require(type(value) is SIMPLE[kind], f"{where}: {value!r} is not a {kind}")
        return value
    return _build_model(value, getattr(api, kind), where)


def _build_model(value, model, where):
    require(isinstance(value, dict), f"{where}: {value!r} is not a {model.__name__}")
    attributes = {field: attribute for attribute, field in model.attribute_map.items()}
    for field in value:
        require(field in attributes, f"{where}: a {model.__name__} has no field '{field}'")
    try:
        return model(**{
            attributes[field]: _build(one, model.openapi_types[attributes[field]], f"{where}.{field}")
            for field, one in value.items()
        })
    except ValueError as error:  # a required field is missing, or its value is not allowed
        raise ManifestError(f"{where}: {error}") from error


def _require_name(name, where):
    require(re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", name or ""), f"{where}: '{name}' is not a name for DNS")


def _require_agreement(job, service):
    spec, template = job.spec, job.spec.template
    pod = template.spec
    labels = {"job-name": job.metadata.name, **(template.metadata.labels or {} if template.metadata else {})}
    require(spec.completion_mode == "Indexed" and spec.completions, "the job must be Indexed, with completions")
    require(spec.parallelism == spec.completions, "all pods must run at once: parallelism is not completions")
    require(pod.restart_policy in ("Never", "OnFailure"), "a job's restartPolicy must be Never or OnFailure")
    require(pod.subdomain == service.metadata.name, "the pods' subdomain is not the service's name")
    require(service.spec.cluster_ip == "None", "only a headless service names pods")
    require(service.spec.selector.items() <= labels.items(), "the service does not select the job's pods")
    require(len(pod.containers) == 1 and pod.containers[0].image, "one container with an image was expected")
    names = [volume.name for volume in pod.volumes]
    for mount in pod.containers[0].volume_mounts:
        require(mount.name in names, f"there is no volume '{mount.name}'")


def read(path):
    """Returns the job and the service of the file, as objects of kubernetes.client."""
    objects = {}
    with open(path, encoding="utf-8") as file:
        for document in yaml.load_all(file, Loader=_Loader):
            kind = document.get("kind")
            model = KINDS.get((document.get("apiVersion"), kind))
            require(model and kind not in objects, f"{document.get('apiVersion')} {kind} is unknown here, or there twice")
            objects[kind] = _build(document, model, kind)
            _require_name(objects[kind].metadata.name, f"{kind}.metadata.name")
    require(len(objects) == len(KINDS), "a job and a service were expected")
    _require_agreement(objects["Job"], objects["Service"])
    return objects["Job"], objects["Service"]
