"""What the operators do: stages, access relations and the dataflow between them."""
