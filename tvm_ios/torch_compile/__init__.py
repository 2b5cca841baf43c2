"""The backend ``tvm_ios`` of ``torch.compile``: graphs of TorchDynamo run as our programs."""
