"""The settings of a store by pyiceberg's names, as this package takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NAMES = {
    "s3.endpoint": "aws_endpoint",
    "s3.region": "aws_region",
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "client.region": "aws_region",
    "client.access-key-id": "aws_access_key_id",
    "client.secret-access-key": "aws_secret_access_key",
    "client.session-token": "aws_session_token",
    "adls.account-name": "azure_storage_account_name",
    "adls.account-key": "azure_storage_account_key",
    "adls.sas-token": "azure_storage_sas_key",
}


def translate_settings(properties: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return obstore's settings for pyiceberg's; None if there are none, so that the environment's count.

    Settings of one store come before those of all (`s3.region` before `client.region`).
    """
    options = {}
    for name in reversed(_NAMES):
        if properties.get(name) is not None:
            options[_NAMES[name]] = str(properties[name])
    if options.get("aws_endpoint", "").startswith("http://"):
        options["allow_http"] = "true"
    return options or None
