"""CV182x, CV181x and CV180x on the vendor's models."""
