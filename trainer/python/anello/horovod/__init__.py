"""The part of Horovod's interface that is the same for all frameworks. Scripts import anello.torch, for example."""
