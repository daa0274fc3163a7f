"""What section 3 of the survey calls capabilities: planning, tools, memory, self-improvement, reasoning, perception, credit.

One module each, and the parts that several of them use: `ahead` (proposals and re-rolls), `vote`, `pairs`, `gate`.
"""
