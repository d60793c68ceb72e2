"""The command `taskmem bench`: measure how well an interrupted agent takes up its work again."""
