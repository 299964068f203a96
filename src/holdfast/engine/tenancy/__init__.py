"""What a tenant has beside its namespaces: keys, webhooks, what it takes up."""
