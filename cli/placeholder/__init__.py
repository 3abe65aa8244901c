"""`evenload placeholder`: room held for bursts: its manifests, how it stands, and how much it is to be."""
