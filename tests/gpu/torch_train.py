# The trainer's network, batch and precision in PyTorch on the same GPU: prints the samples per second of the epochs
# after the first. With "graph" as the second argument, each batch is a replay of one CUDA graph.
import sys
import time

import torch

batch, graphed = int(sys.argv[1]), sys.argv[2:] == ["graph"]
hidden, images, epochs = (256, 128), 1438, 100
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


def step(chosen):
    optimizer.zero_grad(set_to_none=True)
    loss = torch.nn.functional.cross_entropy(model(pixels[chosen]), labels[chosen])
    loss.backward()
    optimizer.step()


fixed = torch.zeros(batch, dtype=torch.int64, device="cuda")
graph = torch.cuda.CUDAGraph()
if graphed:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(fixed)
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        step(fixed)

seen, began = 0, 0.0
for epoch in range(epochs + 1):
    if epoch == 1:
        torch.cuda.synchronize()
        seen, began = 0, time.perf_counter()
    order = torch.randperm(images, device="cuda")
    for at in range(0, images, batch):
        chosen = order[at:at + batch]
        if graphed and len(chosen) == batch:
            fixed.copy_(chosen)
            graph.replay()
        else:
            step(chosen)
        seen += len(chosen)
torch.cuda.synchronize()
print(f"{seen / (time.perf_counter() - began):.0f}")
