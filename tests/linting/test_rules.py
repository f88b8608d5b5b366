"""What each rule finds, and what it leaves alone."""

from __future__ import annotations

import pytest
from tests.linting.snippets import codes

FIRES = {
    "CS001": [
        "h.norm(-1)",
        "h.norm(-2)",
        "h.norm(-1, keepdim=True)",
        "self.h[0].detach().norm(-1)",
        "torch.norm(h, -1)",
        "torch.linalg.norm(h, -1)",
        "np.linalg.norm(h, -1)",
        "from torch.linalg import vector_norm\nvector_norm(h, -1)",
    ],
    "CS002": [
        "F.cosine_similarity(a, p.grad)",
        "F.cosine_similarity(credit, gradient, dim=-1)",
        "torch.cosine_similarity(x1=a, x2=grads[0])",
        "torch.nn.functional.cosine_similarity(a, bp_grad.flatten(1), 1)",
        "from torch.nn.functional import cosine_similarity as cos\ncos(a, g_grad)",
        "g = torch.autograd.grad(loss, h)[0]\nF.cosine_similarity(a, g)",
        "g, = torch.autograd.grad(loss, h)\nv = g.flatten(1).double()\nF.cosine_similarity(a, v)",
        "for a, g in zip(credit, gradients):\n    F.cosine_similarity(a, g)",
        "for i, (a, g) in enumerate(zip(credit, gradients)):\n    F.cosine_similarity(a, g)",
        "[F.cosine_similarity(a, g) for a, g in zip(credit, gradients)]",
        "cos = nn.CosineSimilarity(dim=1)\ncos(a, h.grad)",
        "nn.CosineSimilarity(dim=1)(a, h.grad)",
        "class M:\n    def __init__(self):\n        self.cos = nn.CosineSimilarity()\n"
        "    def f(self, a, h):\n        return self.cos(a, h.grad)",
        "g = jax.grad(f)(x)\nF.cosine_similarity(a, g)".replace("jax", "torch.func"),
    ],
    "CS003": [
        "flat = torch.cat([p.grad.view(-1) for p in model.parameters()])\nF.cosine_similarity(a, flat, 0, 1e-30)",
        "F.cosine_similarity(a, torch.cat([g.reshape(-1) for g in grads]), dim=0, eps=1e-30)",
        "parts = []\nfor p in ps:\n    parts.append(p.grad.flatten().clone())\nv = torch.cat(parts)\n"
        "cos = torch.dot(v, w) / (v.norm() * w.norm())",
        "def flat(model):\n    return torch.cat([torch.flatten(p.grad) for p in model.parameters()])\n"
        "F.cosine_similarity(flat(a), flat(b), dim=0, eps=1e-30)",
        "v = torch.cat([p.grad.flatten() for p in ps])\n"
        "F.cosine_similarity(a[None], v.unsqueeze(0).detach(), eps=1e-30)",
        "v = np.concatenate([g.ravel() for g in grads])\ncos = (v @ w) / (np.linalg.norm(v) * np.linalg.norm(w))",
    ],
    "CS004": [
        "class L(nn.Module):\n    def __init__(self):\n        self.feedback = torch.randn(3, 4)",
        "class L(nn.Linear):\n    def __init__(self):\n        self.fb_weight = torch.empty(3, 4).normal_(0, 1)",
        "class L(nn.Module):\n    def __init__(self):\n        self.feedbacks = [torch.randn(3, 4) for _ in range(2)]",
        "class L(nn.Module):\n    def __init__(self):\n        self.feedback = []\n"
        "        self.feedback.append(torch.randn(3, 4))",
        'class L(nn.Module):\n    """Random feedback."""\n    def __init__(self):\n        self.B = torch.randn(3, 4)',
        "class L(nn.Module):\n    def __init__(self):\n        drawn = torch.rand(3, 4)\n        self.feedback = drawn",
        'feedback = [torch.randn(3, 4)]\ntrain(model, feedback)\ntorch.save(model.state_dict(), "m.pt")',
    ],
    "CS005": [
        "torch.load(path)",
        'torch.load(path, map_location="cpu")',
        "from torch import load\nload(path)",
        "import torch as th\nth.load(path)",
        "try:\n    torch.load(path)\nexcept OSError:\n    pass",
    ],
    "CS006": [
        "import biotorch\nprint('accuracy', correct / total)",
        "class DFANetwork: pass\nprint(f'{acc:.3f}')",
        "model = FeedbackAlignment()\nwandb.log({'test_acc': value})",
        "mode = 'feedback_alignment'\nlogger.info('Accuracy %f', value)",
        "from methods.direct_feedback import rule\nwriter.add_scalar('accuracy/test', acc, epoch)",
    ],
    "CS007": [
        "model.train()\nfor x, y in test_loader:\n    with torch.no_grad():\n        out = model(x)",
        "class T:\n    def fit(self):\n        self.net.train()\n        with torch.inference_mode():\n"
        "            acc = accuracy(self.net(x), y)",
        "model.eval()\nmodel.train(True)\nwith torch.no_grad():\n    correct = (model(x).argmax(1) == y).sum()",
    ],
    "CS008": [
        "def test(model, x, y):\n    return (model(x, y).argmax(1) == y).sum()",
        "def evaluate(net):\n    for x, target in loader:\n        out = net(x, target)\n"
        "        pred = out.max(1)[1]\n        correct += pred.eq(target).sum()",
        "with torch.no_grad():\n    out = self.model(x, labels=labels)\n    _, pred = torch.max(out.data, 1)\n"
        "    correct = (pred == labels).sum()",
        "@torch.no_grad()\ndef run(net, x, y):\n    out = net.forward(x, y)\n"
        "    return (out.argmax(1) == y.to(0)).sum()",
    ],
    "CS009": [
        "loss = F.cross_entropy(model(x), y)\nloss.backward()\nif h.grad.norm().item() < 1e-8:\n    stop()",
        "criterion = nn.CrossEntropyLoss()\nloss = criterion(model(x), y)\ng = torch.autograd.grad(loss, h)[0]\n"
        "dead = g.norm(dim=-1).median() < 1e-7",
        "loss = F.mse_loss(model(x), y, reduction='mean')\nnorm = torch.norm(p.grad)\nassert norm > 1e-6",
        "loss = F.nll_loss(model(x), y)\ndead = torch.linalg.vector_norm(h.grad, dim=-1).max() <= 1e-7",
        "loss = F.cross_entropy(model(x), y)\nvanished = 1e-7 > h.grad.abs().max()",
        "loss = F.cross_entropy(model(x), y)\nif grad_norm < 1e-7:\n    stop()",
    ],
    "CS010": [
        "gammas = [cosine(a, g) for a, g in zip(credit, gradients)]\nprint(np.mean(gammas))",
        "cs = []\nfor layer in model.layers:\n    cs.append(alignment(credit[layer], layer.weight.grad))\n"
        "print(f'{sum(cs) / len(cs):.3f}')",
        "cs = [F.cosine_similarity(a, g, eps=1e-30) for a, g in zip(credit, grads)]\n"
        "gamma = torch.stack(cs).mean()\nwandb.log({'gamma': gamma})",
    ],
}

SILENT = {
    "CS001": [
        "h.norm(dim=-1)",
        "h.norm(2)",
        "h.norm()",
        "h.norm(2, -1)",
        "h.norm(-1, dim=0)",
        "h.norm(p=2, dim=-1)",
        "self.norm(x)",
        "F.layer_norm(x, -1)",
        "torch.norm(h, 2, -1)",
        "torch.norm(h, dim=-1)",
        "np.linalg.norm(h, axis=-1)",
        "order = -1\nh.norm(order)",
        "text = 'h.norm(-1)'",
    ],
    "CS002": [
        "F.cosine_similarity(a, b)",
        "F.cosine_similarity(h.grad, g, dim=-1, eps=1e-30)",
        "F.cosine_similarity(h.grad, g, -1, 1e-30)",
        "F.cosine_similarity(h.grad, g, **options)",
        "F.cosine_similarity(features, embeddings, dim=-1)",
        "F.cosine_similarity(anchor, x, dim=int(x.requires_grad))",
        "cos = nn.CosineSimilarity(dim=1, eps=1e-30)\ncos(a, h.grad)",
        "cos = nn.CosineSimilarity(dim=1)\ncos(image, text)",
        "out = model(x, grads)\nF.cosine_similarity(out, z)",
        "def cosine_similarity(a, b): return a @ b\ncosine_similarity(credit, gradient)",
    ],
    "CS003": [
        "flat = torch.cat([p.grad.flatten() for p in ps])\nprint(flat.norm())",
        "[F.cosine_similarity(a, p.grad.flatten(), dim=0, eps=0.0) for a, p in zip(credit, ps)]",
        "v = torch.cat([h.flatten(1) for h in hiddens])\nF.cosine_similarity(v, w)",
        "v = torch.cat(gradients_of_batches)\nF.cosine_similarity(a, v, dim=-1, eps=1e-30)",
        "v = torch.cat([g.flatten(1) for g in grads_of_batches])\nF.cosine_similarity(a, v, eps=1e-30)",
        "flat = torch.cat([p.grad.flatten() for p in ps])\nscaled = flat / flat.norm()",
    ],
    "CS004": [
        'class L(nn.Module):\n    def __init__(self):\n        self.register_buffer("feedback", torch.randn(3, 4))',
        "class L(nn.Module):\n    def __init__(self):\n        self.feedback = nn.Parameter(torch.randn(3, 4))",
        "class L(nn.Module):\n    def __init__(self):\n        self.feedback = nn.Parameter(torch.randn(3, 4), False)\n"
        "    def reset(self):\n        self.feedback = torch.randn(3, 4)",
        "class L(nn.Module):\n    def __init__(self, g):\n        self.feedback = torch.randn(3, 4, generator=g)",
        "class L(nn.Module):\n    def __init__(self):\n        self.feedback = torch.randn(3, 4)\n"
        "    def get_extra_state(self):\n        return self.feedback",
        "class L(nn.Module):\n    def __init__(self):\n        self.B = torch.randn(3, 4)",
        "class L(nn.Module):\n    def __init__(self):\n        self.noise = torch.randn(3, 4)  # feedback",
        "class L(nn.Module):\n    def __init__(self):\n        self.feedback = nn.ParameterList()\n"
        "        self.feedback.append(nn.Parameter(torch.randn(3, 4)))",
        "feedback = torch.randn(3, 4)",
        'feedback = torch.randn(3, 4)\ntorch.save({"model": model.state_dict(), "B": feedback}, path)',
        'def draw():\n    feedback = torch.randn(3, 4)\n    return feedback\ntorch.save(model, "m.pt")',
        'feedback = torch.randn(3, 4)\nnetwork = Network(feedback)\ntorch.save(network.state_dict(), "m.pt")',
    ],
    "CS005": [
        "torch.load(path, weights_only=True)",
        "torch.load(path, weights_only=False)",
        "torch.load(path, **options)",
        "torch.jit.load(path)",
        "json.load(file)",
        "def load(path): return path\nload(path)",
        "try:\n    torch.load(path, weights_only=True)\nexcept TypeError:\n    torch.load(path)",
    ],
    "CS006": [
        "print('accuracy', correct / total)",
        "model = FeedbackAlignment()\nprint('loss', loss)",
        "model = FeedbackAlignment()\nprint('measuring the accuracy')",
        "model, frozen = FeedbackAlignment(), 1\nprint('accuracy', acc)",
        "model = FeedbackAlignment()\nprint('accuracy', acc, 'baseline', other)",
        '"""Not about feedback alignment at all."""\nprint("accuracy", acc)',
    ],
    "CS007": [
        "model.train()\nmodel.eval()\nwith torch.no_grad():\n    correct = (model(x).argmax(1) == y).sum()",
        "model.train(False)\nwith torch.no_grad():\n    correct = (model(x).argmax(1) == y).sum()",
        "model.train(mode)\nwith torch.no_grad():\n    correct = (model(x).argmax(1) == y).sum()",
        "with torch.no_grad():\n    correct = (model(x).argmax(1) == y).sum()\nmodel.train()",
        "model.train()\nwith torch.no_grad():\n    model.eval()\n    correct = (model(x).argmax(1) == y).sum()",
        "model.train()\nwith torch.no_grad():\n    teacher_logits = model(x)",
        "model.train()\nwith torch.no_grad():\n    correct = (other(x).argmax(1) == y).sum()",
        "model.train()\nset_to_eval(model)\nwith torch.no_grad():\n    correct = (model(x).argmax(1) == y).sum()",
        "for epoch in range(9):\n    model.train()\n    fit(model)\n    acc = evaluate(model, test_loader)",
        "if training:\n    model.train()\nelse:\n    model.eval()\nwith torch.no_grad():\n"
        "    acc = accuracy(model(x), y)",
    ],
    "CS008": [
        "def test(model, x, y):\n    return (model(x).argmax(1) == y).sum()",
        "def train(model, x, y):\n    return (model(x, y).argmax(1) == y).sum()",
        "def evaluate(model, x, labels):\n    out = model(x, labels=labels)\n"
        "    return (out.logits.argmax(1) == labels).sum()",
        "def evaluate(model, x, labels):\n    loss, out = model(x, labels=labels)\n"
        "    return (out.argmax(1) == labels).sum()",
        "def test(model, x, y):\n    out = model(x)\n    loss = criterion(out, y)\n"
        "    return (out.argmax(1) == y).sum(), loss",
        "def test(model, x, y):\n    worst = loss_of(model(x), y).max()\n    return worst == y",
        "def test(model, x, y):\n    out = model(x, y)\n    return out.argmax(1)",
    ],
    "CS009": [
        "loss = F.cross_entropy(model(x), y, reduction='sum')\nif h.grad.norm() < 1e-8:\n    stop()",
        "loss = F.cross_entropy(model(x), y)\nif h.grad.norm() == 0:\n    stop()",
        "loss = F.cross_entropy(model(x), y)\nif h.grad.norm() > 1.0:\n    clip()",
        "loss = F.cross_entropy(model(x), y)\nassert (h.grad - g).norm() < 1e-6",
        "loss = F.cross_entropy(model(x), y)\nassert h.grad.norm() / h.norm() < 1e-6",
        "loss = F.cross_entropy(model(x), y)\nif loss < 1e-6:\n    stop()",
        "loss = F.cross_entropy(model(x), y)\nif h.norm() < 1e-6:\n    stop()",
        "if h.grad.norm() < 1e-8:\n    stop()",
        "criterion = nn.CrossEntropyLoss(reduction='none')\nloss = criterion(model(x), y)\n"
        "if h.grad.norm() < 1e-8:\n    stop()",
        "loss = F.cross_entropy(model(x), y)\nif h.grad.norm() < threshold:\n    stop()",
    ],
    "CS010": [
        "gammas = [cosine(a, g) for a, g in zip(credit, gradients)]\nprint(gammas)",
        "gammas = [cosine(a, g) for a, g in zip(credit, gradients)]\nprint(np.mean(gammas))\nsave(gammas)",
        "def gamma():\n    gammas = [cosine(a, g) for a, g in zip(credit, gradients)]\n"
        "    print(np.mean(gammas))\n    return gammas",
        "cs = []\nfor batch in batches:\n    cs.append(cosine(credit(batch), gradient(batch)))\nprint(np.mean(cs))",
        "cs = []\nfor layer in layers:\n    for batch in batches:\n"
        "        cs.append(cosine(credit(batch), layer.grad))\n"
        "print(np.mean(cs))",
        "losses = [loss(a, g) for a, g in zip(credit, gradients)]\nprint(np.mean(losses))",
        "cs = [cosine(a, b) for a, b in zip(images, texts)]\nprint(np.mean(cs))",
        "gammas = [cosine(a, g) for a, g in zip(credit, gradients)]\nmean = np.mean(gammas)",
    ],
}


def cases(table):
    return [pytest.param(code, text, id=f"{code}-{i}") for code, texts in table.items() for i, text in enumerate(texts)]


@pytest.mark.parametrize(("code", "text"), cases(FIRES))
def test_the_rule_fires_once(code, text, tmp_path):
    assert codes(text, tmp_path).count(code) == 1


@pytest.mark.parametrize(("code", "text"), cases(SILENT))
def test_the_rule_is_silent(code, text, tmp_path):
    assert code not in codes(text, tmp_path)


def test_each_rule_has_code_that_must_fire_and_code_that_must_not():
    from creditscope.linting.rules import lint_rules

    own = {code for code in lint_rules if code.startswith("CS")}
    assert set(FIRES) == set(SILENT) == own
    assert len(own) == 10
