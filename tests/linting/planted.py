"""Every pitfall once; the linter's code stands at the end of the line on which it fires."""

import torch
import torch.nn.functional as F
from torch import nn


class FeedbackAlignmentLayer(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.forward_weight = nn.Parameter(torch.randn(width, width) / width**0.5)
        self.feedback = torch.randn(classes, width)  # CS004
        self.register_buffer("feedback_of_bias", torch.randn(classes))

    def forward(self, h):
        return h + torch.relu(h @ self.forward_weight)


def load(model, path):
    model.load_state_dict(torch.load(path))  # CS005
    return model


def sizes(hiddens):
    wrong = [h.norm(-1) for h in hiddens]  # CS001
    right = [h.norm(dim=-1).median() for h in hiddens]
    return wrong, right


def gamma(credit, h, loss):
    (g,) = torch.autograd.grad(loss, h)
    clamped = F.cosine_similarity(credit, g, dim=-1)  # CS002
    exact = F.cosine_similarity(credit.double(), g.double(), dim=-1, eps=1e-30)
    between_states = F.cosine_similarity(h[:1], h[1:], dim=-1)
    return clamped, exact, between_states


def whole_network(model, credits):
    flat = torch.cat([p.grad.flatten() for p in model.parameters()])
    other = torch.cat([a.flatten() for a in credits])
    return F.cosine_similarity(other, flat, dim=0, eps=1e-30)  # CS003


def reference_has_vanished(model, x, y, hidden):
    F.cross_entropy(model(x), y).backward()
    if hidden.grad.norm(dim=-1).median() < 1e-7:  # CS009
        return True
    return bool((hidden.grad == 0).all())


def show_alignment(credits, gradients, cosine):
    gammas = [cosine(a, g) for a, g in zip(credits, gradients, strict=True)]
    print("alignment", sum(gammas) / len(gammas))  # CS010


def train(model, batches, optimizer, test_batches):
    model.train()
    for x, y in batches:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    correct = 0
    with torch.no_grad():
        for x, y in test_batches:
            correct += (model(x).argmax(1) == y).sum().item()  # CS007
    return correct


@torch.no_grad()
def evaluate(model, x, labels):
    model.eval()
    logits = model(x, labels)  # CS008
    return (logits.argmax(1) == labels).float().mean().item()


def main(model, x, labels):
    print(f"test accuracy {evaluate(model, x, labels):.1%}")  # CS006
