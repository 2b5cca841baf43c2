"""Write recurrent layers as cells of each step, or as one operator of all steps."""
