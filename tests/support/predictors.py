"""A predictor beside services whose columns need none, for what it reports and what it may do in Kafka."""

from dataclasses import replace

from spojoin.local.services import Deployment, services_of
from spojoin.local.supervise import Service
from spojoin.protocol.key_columns import BY_KEY
from spojoin.protocol.topology import Role


def services_and_predictor(deployment: Deployment) -> list[Service]:
    """The services of a deployment, and the predictor that it would have with columns by key."""
    by_key = replace(deployment, extra={**deployment.extra, "columns_by": BY_KEY})
    predictors = [each for each in services_of(by_key) if each.name == Role.PREDICTOR]
    return [*services_of(deployment), *predictors]
