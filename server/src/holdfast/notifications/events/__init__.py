"""From outbox rows to messages: what happened, whether it is news, and whom to notify."""
