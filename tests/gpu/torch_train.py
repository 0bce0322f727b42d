# The trainer's network, batch and precision in PyTorch on the same GPU: samples a second, after a first epoch.
import sys
import time

import torch

batch, hidden, images, epochs = int(sys.argv[1]), (256, 128), 1438, 20
torch.manual_seed(1)
torch.backends.cuda.matmul.allow_tf32 = False
pixels = torch.rand(images, 64, device="cuda")
labels = torch.randint(0, 10, (images,), device="cuda")
layers, width = [], 64
for size in hidden:
    layers += [torch.nn.Linear(width, size), torch.nn.ReLU()]
    width = size
model = torch.nn.Sequential(*layers, torch.nn.Linear(width, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9)
seen, began = 0, 0.0
for epoch in range(epochs + 1):
    if epoch == 1:
        torch.cuda.synchronize()
        seen, began = 0, time.perf_counter()
    order = torch.randperm(images, device="cuda")
    for at in range(0, images, batch):
        chosen = order[at:at + batch]
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(pixels[chosen]), labels[chosen])
        loss.backward()
        optimizer.step()
        seen += len(chosen)
torch.cuda.synchronize()
print(f"{seen / (time.perf_counter() - began):.0f}")
