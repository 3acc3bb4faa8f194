from core.experiment.oracle import Oracle

__all__ = ["Oracle"]
