CREATE TABLE busyness (              -- mean number of activations running at once, over the model's last hour
    model VARCHAR NOT NULL, cluster VARCHAR NOT NULL,
    node VARCHAR NOT NULL, function VARCHAR NOT NULL, running DOUBLE NOT NULL
);
