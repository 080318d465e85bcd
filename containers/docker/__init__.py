"""The docker engine: containers on a network that leads nowhere."""
