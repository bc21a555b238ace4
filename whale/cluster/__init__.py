"""Devices, hosts and links; layouts over them; cluster files; what launchers say about workers. No TensorFlow."""

from __future__ import annotations

from whale.cluster.addresses import Address, parse_address
from whale.cluster.catalogue import CATALOGUE, Catalogue
from whale.cluster.description import describe
from whale.cluster.detection import detect_group, detect_model
from whale.cluster.devices import WORKER_JOB, Cluster, Device, DeviceGroup, Host, Link, LinkKind
from whale.cluster.environment import Workers, check_agreement, from_hosts, from_tf_config, restrict, visible_devices
from whale.cluster.file import load, to_yaml
from whale.cluster.launchers import from_kubernetes, from_slurm
from whale.cluster.layouts import Layout, Slices, slices, virtual_devices
from whale.cluster.lookup import find_device
from whale.cluster.models import MODELS, DeviceModel, Kind
from whale.cluster.names import DeviceName, parse_name
from whale.cluster.virtual_device import VirtualDevice

__all__ = [
    "CATALOGUE",
    "MODELS",
    "WORKER_JOB",
    "Address",
    "Catalogue",
    "Cluster",
    "Device",
    "DeviceGroup",
    "DeviceModel",
    "DeviceName",
    "Host",
    "Kind",
    "Layout",
    "Link",
    "LinkKind",
    "Slices",
    "VirtualDevice",
    "Workers",
    "check_agreement",
    "describe",
    "detect_group",
    "detect_model",
    "find_device",
    "from_hosts",
    "from_kubernetes",
    "from_slurm",
    "from_tf_config",
    "load",
    "parse_address",
    "parse_name",
    "restrict",
    "slices",
    "to_yaml",
    "virtual_devices",
    "visible_devices",
]
