"""Libraries that use torch.distributed with the backend "anello": their ranks train like one process with all data."""
import socket
import subprocess
import sys

import pytest

pytest.importorskip("accelerate")
pytest.importorskip("lightning")

RANKS = 2
BEGIN = """
import os
import warnings
warnings.filterwarnings("ignore")
import torch
import torch.distributed as dist
import anello.torch.distributed

STEPS = 3
def model():
    torch.manual_seed(0)
    return torch.nn.Linear(3, 2)
def loss(model, rank, step):
    return model(torch.full((4, 3), rank + step / 2 + 1.0)).pow(2).mean()
def check(trained):
    alone = model()
    optimizer = torch.optim.SGD(alone.parameters(), 0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        (sum(loss(alone, rank, step) for rank in range(dist.get_world_size())) / dist.get_world_size()).backward()
        optimizer.step()
    for one, other in zip(trained.parameters(), alone.parameters()):
        torch.testing.assert_close(one, other)
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}: right, over {dist.get_backend()}\\n", end="", flush=True)
"""


def trained(script, tmp_path):
    """Runs ranks of a script under torchrun. The ranks check their results."""
    (tmp_path / "train.py").write_text(BEGIN + script)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ended = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS),
                            "--master-port", str(port), "train.py"], cwd=tmp_path, capture_output=True, text=True,
                           timeout=300)
    said = [line for line in ended.stdout.splitlines() if line.startswith("rank ")]
    assert sorted(said) == [f"rank {rank} of {RANKS}: right, over anello" for rank in range(RANKS)], ended
    assert ended.returncode == 0


def test_accelerate(tmp_path):
    trained("""
from accelerate import Accelerator
dist.init_process_group("anello")
accelerator = Accelerator(cpu=True)
made = accelerator.prepare(model())
optimizer = accelerator.prepare(torch.optim.SGD(made.parameters(), 0.1))
for step in range(STEPS):
    optimizer.zero_grad()
    accelerator.backward(loss(made, accelerator.process_index, step))
    optimizer.step()
assert accelerator.gather(torch.tensor([accelerator.process_index])).tolist() == list(range(dist.get_world_size()))
check(accelerator.unwrap_model(made))
accelerator.end_training()
""", tmp_path)


def test_lightning(tmp_path):
    trained("""
import lightning
from lightning.pytorch.strategies import DDPStrategy
class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.inner = model()
    def training_step(self, batch, step):
        value = loss(self.inner, self.global_rank, step)
        self.log("loss", value, sync_dist=True)
        return value
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)
module = Module()
trainer = lightning.Trainer(accelerator="cpu", devices=int(os.environ["WORLD_SIZE"]), max_epochs=1, logger=False, enable_checkpointing=False,
                            strategy=DDPStrategy(process_group_backend="anello"), enable_progress_bar=False,
                            enable_model_summary=False, use_distributed_sampler=False)
trainer.fit(module, torch.utils.data.DataLoader(torch.zeros(STEPS, 1)))
check(module.inner)
""", tmp_path)
