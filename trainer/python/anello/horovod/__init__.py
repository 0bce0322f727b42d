"""The part of Horovod's interface that frameworks share. Scripts find it in anello.torch."""
