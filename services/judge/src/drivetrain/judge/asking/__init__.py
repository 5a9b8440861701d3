"""How a judge model is asked: material set apart from instructions, several answers, and only valid ones counted."""
