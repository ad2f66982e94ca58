"""What choosing the best of several runs costs, when their number is random or fixed."""
