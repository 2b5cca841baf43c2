"""The networks of the zoo: one entry each."""

from __future__ import annotations

from tvm_ios.zoo.registry import enter

#: Those that papers about the memory of orders measure.
MEMORY_NETWORKS = (
    "nasnet_a_mobile",
    "nasnet_a_cifar",
    "amoebanet_a",
    "amoebanet_a_cifar",
    "darts",
    "darts_cifar",
    "randwire_small_1",
    "randwire_small_2",
    "randwire_small_3",
    "hrnet_w18_small_v1",
    "hrnet_w18_small_v2",
    "hrnet_w32",
    "hrnet_w18_small_v1_256",
    "hrnet_w18_small_v2_256",
    "hrnet_w32_256",
)

enter("images.inception_v3", "inception_v3", 299, (120, 13), "Inception V3 (Szegedy et al., 2016)")
enter("images.squeezenet", "squeezenet", 224, (50, 12), "SqueezeNet 1.0 with complex bypass (2016)")
enter("cells.nasnet_a", "nasnet_a", 331, (374, 24), "NASNet-A large, 6 @ 4032 (Zoph et al., 2018)")
enter(
    "cells.randwire",
    "randwire",
    224,
    (120, 6),
    "RandWire, WS(4, 0.75), regular regime (Xie et al., 2019)",
)
enter("images.resnet", "resnet50", 224, (56, 18), "ResNet-50 v1.5 (He et al., 2016)")
enter(
    "images.resnext29",
    "resnext29",
    32,
    (33, 11),
    "ResNeXt-29, 16x64d, for CIFAR (Xie et al., 2017)",
)
enter("cells.nasnet_a", "nasnet_a_cifar", 32, (338, 22), "NASNet-A for CIFAR, 6 @ 768 (2018)")
enter("images.densenet121", "densenet121", 224, (184, 19), "DenseNet-121 (Huang et al., 2017)")
enter("images.mobilenet_v2", "mobilenet_v2", 224, (54, 16), "MobileNet V2 (Sandler et al., 2018)")
enter(
    "images.mobilenet_v3",
    "mobilenet_v3",
    224,
    (81, 23),
    "MobileNet V3, large (Howard et al., 2019)",
)
enter(
    "images.efficientnet_b0",
    "efficientnet_b0",
    224,
    (115, 29),
    "EfficientNet-B0 (Tan and Le, 2019)",
)
enter("images.shufflenet_v2", "shufflenet_v2", 224, (56, 18), "ShuffleNet V2, 1x (Ma et al., 2018)")
enter("images.unet", "unet", 128, (31, 3), "U-Net, an eighth as wide (Ronneberger et al., 2015)")
enter(
    "sequences.lstm",
    "lstm_tc",
    {"input": (100, 1, 256)},
    (1991, 206),
    "LSTM-TC, 10 layers, 100 steps (Rammer)",
)
enter(
    "sequences.transformer",
    "transformer",
    {"tokens": (1, 64)},
    (44, 10),
    "a transformer encoder, 4 layers of width 256 (Vaswani et al., 2017)",
)
enter("cells.nasnet_a", "nasnet_a_mobile", 224, (282, 18), "NASNet-A mobile, 4 @ 1056 (2018)")
enter("cells.amoebanet_a", "amoebanet_a", 224, (295, 18), "AmoebaNet-A (4, 50) (Real et al., 2019)")
enter("cells.amoebanet_a", "amoebanet_a_cifar", 32, (343, 22), "AmoebaNet-A for CIFAR (6, 36)")
enter("cells.darts", "darts", 224, (215, 17), "DARTS, second order (Liu et al., 2019)")
enter("cells.darts", "darts_cifar", 32, (299, 22), "DARTS for CIFAR, 20 cells of 36 channels")
enter(
    "cells.randwire",
    "randwire_small_1",
    224,
    (104, 5),
    "RandWire, WS(4, 0.75), small regime (2019)",
)
enter(
    "cells.randwire",
    "randwire_small_2",
    224,
    (104, 6),
    "RandWire, WS(4, 0.75), small regime (2019)",
)
enter(
    "cells.randwire",
    "randwire_small_3",
    224,
    (104, 6),
    "RandWire, WS(4, 0.75), small regime (2019)",
)
enter(
    "images.hrnet", "hrnet_w18_small_v1", 224, (114, 15), "HRNet-W18 small, v1 (Wang et al., 2020)"
)
enter("images.hrnet", "hrnet_w18_small_v2", 224, (209, 26), "HRNet-W18 small, v2 (2020)")
enter("images.hrnet", "hrnet_w32", 224, (386, 38), "HRNet-W32 (2020)")
enter(
    "sequences.transformer",
    "bert_small",
    {"tokens": (1, 128)},
    (44, 17),
    "BERT-Small's encoder, 4 layers of width 512 (Turc et al., 2019)",
)
enter(
    "sequences.vision_transformer",
    "vit_tiny",
    224,
    (124, 26),
    "ViT-Tiny/16 (Dosovitskiy et al., 2021)",
)
enter(
    "sequences.dlrm",
    "dlrm",
    {"dense": (1, 13), "embeddings": (1, 26, 128)},
    (14, 2),
    "DLRM's MLPs and interaction, MLPerf's sizes (Naumov et al., 2019)",
)
enter("images.figure_2", "ios_figure_2", {"input": (1, 384, 15, 15)}, (5, 1), "IOS's figure 2")
enter("images.resnet", "resnet34", 224, (39, 18), "ResNet-34 (He et al., 2016)")
enter("images.sequential", "vgg16", 224, (21, 1), "VGG-16 (Simonyan and Zisserman, 2015)")
enter("images.sequential", "alexnet", 227, (11, 1), "AlexNet as Rammer ran it (2012)")
enter(
    "images.resnext_branches",
    "resnext29_branches",
    32,
    (313, 47),
    "ResNeXt-29 of 16 branches, as Rammer ran it",
)
enter(
    "images.resnext_branches",
    "resnext101_branches",
    224,
    (4298, 365),
    "ResNeXt-101 of 64 branches, as Rammer ran it",
)
enter(
    "sequences.lstm",
    "lstm_tc_gates",
    {"input": (100, 1, 256)},
    (13040, 1153),
    "LSTM-TC, eight products a cell, as Rammer ran it",
)
enter(
    "sequences.deepspeech2",
    "deepspeech2",
    {"input": (1, 1, 300, 171)},
    (1129, 61),
    "DeepSpeech2, 7 layers, as Rammer ran it",
)
enter(
    "sequences.seq2seq",
    "seq2seq",
    {"input": (100, 1, 128)},
    (1940, 153),
    "Seq2Seq, 8 and 4 layers, as Rammer ran it",
)
enter(
    "images.resnet",
    "resnet18_tailor",
    {"input": (1, 64, 56, 56)},
    (11, 4),
    "four blocks of ResNet-18 (GraphTurbo)",
)
for _tokens in (128, 256, 384, 512):
    enter(
        "sequences.bert",
        f"bert_{_tokens}",
        {"tokens": (1, _tokens), "segments": (1, _tokens)},
        (125, 50),
        f"BERT base, {_tokens} tokens (Devlin et al., 2019)",
    )
enter(
    "sequences.vision_transformer",
    "vit_base",
    224,
    (124, 26),
    "ViT-Base/16 (Dosovitskiy et al., 2021)",
)
enter(
    "sequences.conformer",
    "conformer",
    {"input": (1, 1, 1000, 80)},
    (467, 81),
    "Conformer (S)'s encoder (Gulati et al., 2020)",
)
enter(
    "images.hrnet",
    "hrnet_w18_small_v1_256",
    256,
    (114, 15),
    "HRNet-W18 small, v1, narrow stem",
)
enter(
    "images.hrnet",
    "hrnet_w18_small_v2_256",
    256,
    (209, 26),
    "HRNet-W18 small, v2, narrow stem",
)
enter("images.hrnet", "hrnet_w32_256", 256, (386, 38), "HRNet-W32, narrow stem")
enter(
    "small.inception_block", "inception_block", 19, (17, 3), "one small Inception block, for tests"
)
enter("cells.nasnet_a", "nasnet_cell", 32, (36, 4), "two small NASNet-A normal cells, for tests")
enter("sequences.lstm", "lstm_small", {"input": (6, 1, 16)}, (23, 2), "a small LSTM, for tests")
enter(
    "sequences.lstm",
    "lstm_gates_small",
    {"input": (6, 1, 16)},
    (150, 20),
    "an LSTM of eight products a cell, for tests",
)
enter("sequences.seq2seq", "seq2seq_small", {"input": (5, 1, 16)}, (31, 4), "a Seq2Seq, for tests")
enter(
    "sequences.deepspeech2",
    "deepspeech2_small",
    {"input": (1, 1, 16, 12)},
    (16, 3),
    "a DeepSpeech2, for tests",
)
enter(
    "sequences.conformer",
    "conformer_small",
    {"input": (1, 1, 47, 80)},
    (61, 11),
    "a Conformer, for tests",
)
enter(
    "sequences.transformer",
    "transformer_small",
    {"tokens": (1, 12)},
    (24, 6),
    "a small encoder, for tests",
)
enter(
    "small.ports",
    "two_inputs",
    {"input": (1, 3, 16, 16), "detail": (1, 1, 32, 32)},
    (7, 3),
    "two images joined, for tests",
)
enter("small.ports", "several_outputs", 16, (7, 2), "three outputs, for tests")
